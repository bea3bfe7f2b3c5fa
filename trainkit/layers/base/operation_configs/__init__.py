"""Operations in the configs of functional models, under the classes that Keras has for them."""

"""Operations on sliding windows: convolution, pooling, morphology."""

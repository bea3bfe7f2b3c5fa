"""`keras.applications.inception_resnet_v2`."""

from trainkit.applications.inception_resnet_v2 import InceptionResNetV2 as InceptionResNetV2
from trainkit.applications.preprocessing import decode_predictions as decode_predictions
from trainkit.applications.preprocessing import scaled as preprocess_input

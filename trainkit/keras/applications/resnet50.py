"""`keras.applications.resnet50`."""

from trainkit.applications.preprocessing import centered as preprocess_input
from trainkit.applications.preprocessing import decode_predictions as decode_predictions
from trainkit.applications.resnet import ResNet50 as ResNet50

"""`keras.applications.resnet_v2`."""

from trainkit.applications.preprocessing import decode_predictions as decode_predictions
from trainkit.applications.preprocessing import scaled as preprocess_input
from trainkit.applications.resnet import ResNet50V2 as ResNet50V2
from trainkit.applications.resnet import ResNet101V2 as ResNet101V2
from trainkit.applications.resnet import ResNet152V2 as ResNet152V2

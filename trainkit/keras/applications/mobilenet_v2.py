"""`keras.applications.mobilenet_v2`."""

from trainkit.applications.mobilenet import MobileNetV2 as MobileNetV2
from trainkit.applications.preprocessing import decode_predictions as decode_predictions
from trainkit.applications.preprocessing import scaled as preprocess_input

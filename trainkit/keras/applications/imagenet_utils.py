"""`keras.applications.imagenet_utils`."""

from trainkit.applications.preprocessing import decode_predictions as decode_predictions
from trainkit.applications.preprocessing import preprocess_input as preprocess_input

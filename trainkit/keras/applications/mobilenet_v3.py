"""`keras.applications.mobilenet_v3`."""

from trainkit.applications.preprocessing import decode_predictions as decode_predictions
from trainkit.applications.preprocessing import unchanged as preprocess_input

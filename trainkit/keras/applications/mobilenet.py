"""`keras.applications.mobilenet`."""

from trainkit.applications.mobilenet import MobileNet as MobileNet
from trainkit.applications.preprocessing import decode_predictions as decode_predictions
from trainkit.applications.preprocessing import scaled as preprocess_input

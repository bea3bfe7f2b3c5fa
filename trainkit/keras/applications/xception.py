"""`keras.applications.xception`."""

from trainkit.applications.preprocessing import decode_predictions as decode_predictions
from trainkit.applications.preprocessing import scaled as preprocess_input
from trainkit.applications.xception import Xception as Xception

"""`keras.applications.nasnet`."""

from trainkit.applications.nasnet import NASNetLarge as NASNetLarge
from trainkit.applications.nasnet import NASNetMobile as NASNetMobile
from trainkit.applications.preprocessing import decode_predictions as decode_predictions
from trainkit.applications.preprocessing import scaled as preprocess_input

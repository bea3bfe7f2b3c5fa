"""`keras.applications.densenet`."""

from trainkit.applications.densenet import DenseNet121 as DenseNet121
from trainkit.applications.densenet import DenseNet169 as DenseNet169
from trainkit.applications.densenet import DenseNet201 as DenseNet201
from trainkit.applications.preprocessing import decode_predictions as decode_predictions
from trainkit.applications.preprocessing import standardized as preprocess_input

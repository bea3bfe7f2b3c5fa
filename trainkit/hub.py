"""`tk.hub`: models in folders as the Hugging Face Hub has them."""

from trainkit.weights.hub import *

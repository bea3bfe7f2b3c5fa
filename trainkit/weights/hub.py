"""`tk.hub`: models in folders as the Hugging Face Hub has them."""

from trainkit.weights.hub_folders import load as load
from trainkit.weights.hub_folders import save as save

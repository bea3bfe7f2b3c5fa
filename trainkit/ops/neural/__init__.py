"""What neural networks are made of: activations, products, convolutions, losses."""

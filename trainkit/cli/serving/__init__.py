"""Models in files as functions of named arrays, and an HTTP server of them."""

"""One block compiled for all of a model, beside the model compiled whole."""

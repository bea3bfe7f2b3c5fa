"""Steps of a pipeline, each from data sets to a data set."""

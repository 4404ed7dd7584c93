"""Image data sets for classification."""

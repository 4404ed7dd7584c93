"""Experiments on what has been built: measured, compared, written down."""

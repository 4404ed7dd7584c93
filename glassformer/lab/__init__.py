"""Experiments: the comparison of architectures (ladder, ablations), benchmarks, and measurements of models."""

"""Data sets: file formats, filtering, reports, preparation, caching and batching."""

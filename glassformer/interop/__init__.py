"""Import and export of models of other libraries; one file per model family."""

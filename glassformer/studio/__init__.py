"""The studio: a local web page for inspecting a model. `app.studio(runs)` returns the application.

security.py          checks of every request
model_store.py       the runs given to the studio, loaded on first use
tracing.py           run a model on an input and record a trace, for every task
trace_store.py       the recorded traces of all visitors, with limits
context.py           what every route needs
routes/              one module per group of addresses
figure.py            the architecture as blocks and arrows
entries.py           one entry of a tensor and the entries it was computed from
training_log.py      the log of a run
checkpoint_views.py  one sentence run through the checkpoints of a run
serialization.py     the formats that are sent: JSON, uint8 for colours, float32 for values
static/              the page: ES modules, one per view; messages.json has all its texts in English and Korean
"""

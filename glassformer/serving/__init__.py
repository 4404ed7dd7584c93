"""`glassformer serve`: the HTTP service, its worker processes and their jobs.

server.py            the process: uvicorn, signals; app.py: the application; options.py: limits and access
gate.py              checks of every request; keys.py, rate_limits.py; metrics.py, logs.py
routes/              one module per group of endpoints; parameters.py, request_errors.py: their input and errors
service.py           the state that the routes share; languages.py, detection.py, file_store.py
translation.py       texts to jobs and back; documents/: text, HTML and subtitles as sentences
static/              the pages / and /docs
jobs.py              jobs and results
pool.py              the worker processes and the queue of jobs; worker_handle.py, tickets.py: one of each
protocol.py          messages between the server and a worker process
worker.py            the main loop of a worker process; served_model.py: a run in it
batching.py          continuous batching in the native engine; static_batching.py: PyTorch
translation_jobs.py  jobs for Transformers; continuation_jobs.py: for GPT
"""

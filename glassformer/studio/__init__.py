"""The studio: a page on this machine that looks through a model. `app.studio(runs)` is the whole of it.

door.py     who may come in
shelf.py    the runs that were named, loaded on first use
asking.py   a sentence in, a trace out, for every task
traces.py   the traces that visitors look at, bounded
desk.py     those together: what every route is given
routes/     one module a group of addresses
figure.py   the architecture as blocks and arrows
cells.py    one number and the numbers that it comes from; operands.py and recurrent_operands.py say which, by formula
logs.py     what a run wrote down while it was trained
film.py     one sentence through the checkpoints of a run
payloads.py what is sent: a small outline, bytes for colour, float32 for numbers
static/     the page: plain ES modules, one a view
"""

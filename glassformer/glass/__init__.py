"""Inspection of models: traces, interventions, views and exports.

trace.py             `Trace`: every tensor of a forward pass, its provenance, attention layers, next tokens
image_trace.py, question_trace.py   traces with the patches of an image, or the answer to a question
teacher_forcing.py   teacher forcing compared with free running
search_tree.py       the candidates of a beam search
interventions.py     changes to a forward pass; effects.py: their effect on the output; mask_removal.py: attention masks
residual_stream.py   vector norms, and the logit lens
logit_attribution.py  the difference of two logits by layer, head and token
gradients.py         the backward pass over a traced sentence
recurrent_layers.py  states, gates and attention of recurrent models
nearest_tokens.py    tokens with similar embeddings
head_accuracy.py     how often each head attends to the right one of two nouns
word_in_context.py   a word's vectors in different texts
heatmap.py           attention as rows, columns and values, drawn by terminal.py, svg.py, png.py, html.py
trace_files.py       CSV, JSON, NumPy; numpy_code.py: a tensor's computation as a NumPy program
"""

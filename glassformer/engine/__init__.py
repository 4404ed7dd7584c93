"""The native inference engine: Transformer, GPT and BERT on a CPU, without PyTorch.

csrc/           the engine in C: engine.h is its interface, model.c the packed weights, layers.c encoder and decoder,
                search.c greedy decoding, sampling and beam search, constraints.c terms that must occur, session.c
                many sentences at a time, kernels.c and matmul_*.h one set of kernels per instruction set, cpu.c the
                choice between them; training.c and training_kernels.h operations of bf16 training, for nn/fused.py
build.py        compiles csrc/ with the system's C compiler
library.py      loads the library (ctypes)
safetensors.py  reads safetensors files
model.py        a run's weights in the engine, the cached int8 copy, and a worker per thread
session.py      continuous batching: sentences join and leave between the steps of the decoder

Weights are quantized to int8 and packed in csrc/model.c.
"""

"""Predictors: apply a trained run to an input (text or image).

translator.py          Translator; batch_decoder.py: batches, workers.py: one per core, shards.py: parts of a file
classifier.py          TextClassifier, ImageClassifier, TextTagger
question_answering.py  QuestionAnswerer
generator.py           TextGenerator, MusicGenerator
fill_mask.py           MaskFiller
embeddings.py          SentenceEmbedder, ContextualEmbedder
predictor.py           the base classes of predictors
search_engine.py       runs a model with PyTorch or the native engine; native_modules.py: BERT and GPT
run_folder.py          the files of a run folder; run.py: its model
loading.py             run folder → predictor, by its task
"""

"""Text: reading and normalizing lines, tokenizers, words and their subwords."""

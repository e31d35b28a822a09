"""Fine-tuning on batches of ever other lengths."""

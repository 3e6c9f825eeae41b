"""The questions, one file a chapter; the file is named as the quiz."""

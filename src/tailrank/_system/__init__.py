"""Files, threads and compiled code: nothing of the subject."""

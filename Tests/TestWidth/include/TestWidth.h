/// Nothing to call: the library sets how many tests run at a time when it is loaded.

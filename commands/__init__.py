"""The command line: options in, a library call, a sink out."""

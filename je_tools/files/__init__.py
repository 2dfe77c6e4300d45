"""The files of a log, listed with their headers, their contents and the engines that open them."""

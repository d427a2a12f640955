"""The partner's SDK: a shell that reserves the name until its public face is built."""

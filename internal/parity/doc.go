// Package parity holds prefire against the real aiperf 0.13.0: both programs get the same command line and the same mock server, and all
// that timing does not touch must agree: exit codes, files, keys, units, orders, counts, lengths, and every byte of a request. What may
// differ is a declared list, each entry of which points to a numbered line of docs/differences.md.
//
// The comparison runs where aiperf is installed: the environment variable PREFIRE_AIPERF names its program, otherwise
// $HOME/.cache/peers/aiperf/bin/aiperf is looked for. It needs the vocabulary of its builtin tokenizer in TIKTOKEN_CACHE_DIR, or in
// $HOME/.cache/peers/tiktoken-cache.
package parity

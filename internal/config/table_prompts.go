package config

// corpora and cacheBusts are aiperf's names.
func corpora() []string { return []string{"sonnet", "coding", "random"} }

func cacheBusts() []string {
	return []string{
		"none", "system_prefix", "system_suffix", "first_turn_prefix", "first_turn_suffix", "warmup_isolation_system",
		"warmup_isolation_first_turn",
	}
}

// promptFlags shape the synthetic prompts.
func promptFlags() []Flag {
	return []Flag{
		{Field: "isl_counts", Names: []string{"--isl-counts"}, Group: gPrefire, Kind: Enum, Choices: []string{"prompt", "template"},
			Default: "prompt",
			Help: "What the input length counts. prompt: the prompt's own tokens, as in aiperf. template: also what the server's chat template " +
				"adds, measured before the run, so that the server's own count is the length asked for."},
		{Field: "repeat_share", Names: []string{"--repeat-share"}, Group: gPrefire, Kind: Number, Bound: between(0, 0.999999), Default: "0",
			Help: "Share of the sessions, 0 to below 1, that are an earlier one of the run again, spread evenly: for measuring a prefix cache."},

		{Field: "apply_chat_template", Names: []string{"--apply-chat-template"}, Group: gTokenizer, Kind: Bool, Default: "false",
			Help: "Count the chat template's tokens in the input length, as --isl-counts template. They are the server's own, by its count of a " +
				"request before the run."},

		{Field: "conversation_turn_mean", Names: []string{"--conversation-turn-mean", "--session-turns-mean"}, Group: gConversation, Kind: Int,
			Bound: atLeast(1), Sweep: true, Default: "1", Help: "Turns of a session; each later one has the server's answers before it as history."},
		{Field: "conversation_turn_stddev", Names: []string{"--conversation-turn-stddev", "--session-turns-stddev"}, Group: gConversation,
			Kind: Int, Bound: atLeast(0), Default: "0", Help: "Standard deviation of the number of turns."},
		{Field: "conversation_turn_delay_mean", Names: []string{"--conversation-turn-delay-mean", "--session-turn-delay-mean"},
			Group: gConversation, Kind: Number, Bound: between(0, maxSeconds*1e3), Default: "0",
			Help: "Think time before each turn but the first, in milliseconds."},
		{Field: "conversation_turn_delay_stddev", Names: []string{"--conversation-turn-delay-stddev", "--session-turn-delay-stddev"},
			Group: gConversation, Kind: Number, Bound: between(0, maxSeconds*1e3), Default: "0",
			Help: "Standard deviation of the think time, in milliseconds; needs a mean."},
		{Field: "conversation_turn_delay_ratio", Names: []string{"--conversation-turn-delay-ratio", "--session-delay-ratio"},
			Group: gConversation, Kind: Number, Bound: between(0, 1e6), Default: "1", Help: "Factor on every think time; 0: none."},

		{Field: "prompt_sequence_distribution", Names: []string{"--seq-dist", "--sequence-distribution"}, Group: gISL, Kind: Text,
			Help: "Mix of input and output lengths in place of --isl and --osl, as ISL,OSL:percent;…, each length perhaps with |stddev: " +
				"\"128,64:25;512|20,128|5:75\". Also [(128,64):25,…] or {\"pairs\":[{isl,osl,prob,isl_stddev,osl_stddev}]}. Adds up to 100."},
		{Field: "prompt_random_range_ratio", Names: []string{"--random-range-ratio"}, Group: gISL, Kind: Text,
			Help: "Lengths drawn evenly around --isl and --osl: a ratio r, or {\"input\":r,\"output\":r}. vllm style: from mean×(1-r) to " +
				"mean×(1+r), r below 1. sglang style: from mean×r to the mean."},
		{Field: "prompt_random_corpus_style", Names: []string{"--random-corpus-style"}, Group: gISL, Kind: Enum, Choices: []string{"vllm",
			"sglang"}, Default: "vllm", Help: "How --random-range-ratio is meant."},

		{Field: "prompt_batch_size", Names: []string{"--prompt-batch-size", "--batch-size-text", "--batch-size", "-b"}, Group: gPrompt,
			Kind: Int, Bound: between(1, 1<<20), Default: "1", Help: "Texts in one request, each of the input length, as parts of the message."},
		{Field: "prompt_corpus", Names: []string{"--prompt-corpus"}, Group: gPrompt, Kind: Enum, Choices: corpora(),
			Help: "What prompts are made of. sonnet: English sentences (prefire's own, not Shakespeare's). coding: a program. random: random " +
				"words of the tokenizer's vocabulary. Not given: sonnet."},

		{Field: "system_prompt", Names: []string{"--system-prompt"}, Group: gPrefix, Kind: Text,
			Help: "System message of every session, sent as it is; it comes on top of the input length."},
		{Field: "system_prompt_file", Names: []string{"--system-prompt-file"}, Group: gPrefix, Kind: Text,
			Help: "File with the text of the system message."},
		{Field: "prompt_prefix_pool_size", Names: []string{"--prompt-prefix-pool-size", "--prefix-prompt-pool-size", "--num-prefix-prompts"},
			Group: gPrefix, Kind: Int, Bound: between(0, 1<<20), Default: "0",
			Help: "Number of prefixes, one of which, drawn, begins each session; needs --prefix-prompt-length."},
		{Field: "prompt_prefix_length", Names: []string{"--prompt-prefix-length", "--prefix-prompt-length"}, Group: gPrefix, Kind: Int,
			Bound: between(0, 1<<30), Default: "0", Help: "Tokens of a prefix; they come on top of the input length."},
		{Field: "prompt_prefix_shared_system_length", Names: []string{"--shared-system-prompt-length"}, Group: gPrefix, Kind: Int,
			Bound: between(1, 1<<30), Help: "Tokens of a system message that is made, the same in every session; on top of the input length."},
		{Field: "prompt_prefix_user_context_length", Names: []string{"--user-context-prompt-length"}, Group: gPrefix, Kind: Int,
			Bound: between(1, 1<<30), Help: "Tokens of a message before each session's first turn, new in each session; on top of the input length."},

		{Field: "cache_bust", Names: []string{"--cache-bust"}, Group: gCacheBust, Kind: Enum, Choices: cacheBusts(), Default: "none",
			Help: "Put a marker that no other session has into the system message or the first turn; its tokens count in the made text's length. " +
				"The warm-up isolation ones mark the warm-up's sessions alone."},
	}
}

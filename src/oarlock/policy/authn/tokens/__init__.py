"""Bearer tokens: who issues them, how they are verified and remembered. Read `bearer_tokens` first."""

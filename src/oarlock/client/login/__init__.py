"""Where a server is, and who asks it: kubeconfigs, tokens, certificates, plugins. Read `config` first."""

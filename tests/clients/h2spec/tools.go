//go:build tools

// Package h2spec names the program that this module is there for.
package h2spec

import _ "github.com/summerwind/h2spec/cmd/h2spec"

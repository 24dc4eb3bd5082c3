// Command servers has the API servers that the tests run beside ours, in one program: they share what it is made of.
//
//	servers extension FLAGS    the extension API server of k8s.io/sample-apiserver, with Flunders and Fischers
//	servers aggregator FLAGS   the aggregator of k8s.io/kube-aggregator
package main

import (
	"os"

	"github.com/spf13/cobra"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/component-base/cli"
	aggregator "k8s.io/kube-aggregator/pkg/cmd/server"
	extension "k8s.io/sample-apiserver/pkg/cmd/server"
)

func main() {
	which := ""
	if len(os.Args) > 1 {
		which = os.Args[1]
	}
	context := genericapiserver.SetupSignalContext()
	var command *cobra.Command
	switch which {
	case "extension":
		command = extension.NewCommandStartWardleServer(context, extension.NewWardleServerOptions(os.Stdout, os.Stderr), false)
	case "aggregator":
		command = aggregator.NewCommandStartAggregator(context, aggregator.NewDefaultOptions(os.Stdout, os.Stderr))
	default:
		os.Stderr.WriteString("servers extension|aggregator FLAGS\n")
		os.Exit(2)
	}
	command.Use = which
	command.SetArgs(os.Args[2:])
	os.Exit(cli.Run(command))
}

// Command kubectl has the commands of kubectl that the tests use.
package main

import (
	"os"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/kubectl/pkg/cmd/apiresources"
	"k8s.io/kubectl/pkg/cmd/apply"
	"k8s.io/kubectl/pkg/cmd/auth"
	"k8s.io/kubectl/pkg/cmd/create"
	"k8s.io/kubectl/pkg/cmd/delete"
	"k8s.io/kubectl/pkg/cmd/events"
	"k8s.io/kubectl/pkg/cmd/explain"
	"k8s.io/kubectl/pkg/cmd/get"
	"k8s.io/kubectl/pkg/cmd/rollout"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubectl/pkg/cmd/version"
	"k8s.io/kubectl/pkg/cmd/wait"
)

func main() {
	flags := genericclioptions.NewConfigFlags(true).WithDeprecatedPasswordFlag().WithDiscoveryBurst(300).WithDiscoveryQPS(50)
	root := &cobra.Command{Use: "kubectl", SilenceUsage: true}
	flags.AddFlags(root.PersistentFlags())
	root.PersistentFlags().Bool("warnings-as-errors", false, "asked for by version")
	match := cmdutil.NewMatchVersionFlags(flags)
	match.AddFlags(root.PersistentFlags())
	f := cmdutil.NewFactory(match)
	streams := genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}
	root.AddCommand(
		apiresources.NewCmdAPIResources(flags, streams),
		apply.NewCmdApply("kubectl", f, streams),
		auth.NewCmdAuth(f, streams),
		create.NewCmdCreate(f, streams),
		delete.NewCmdDelete(f, streams),
		events.NewCmdEvents(f, streams),
		explain.NewCmdExplain("kubectl", f, streams),
		get.NewCmdGet("kubectl", f, streams),
		rollout.NewCmdRollout("kubectl", f, streams),
		version.NewCmdVersion(f, streams),
		wait.NewCmdWait(flags, streams),
	)
	if err := root.Execute(); err != nil {
		os.Exit(1)
	}
}

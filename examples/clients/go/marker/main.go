// Command marker is an operator written with controller-runtime: a Deployment with the label operated=yes gets an
// annotation that says how many of its pods are ready. $KUBECONFIG says where the cluster is.
package main

import (
	"context"
	"log"
	"os"
	"strconv"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const ready = "cranes.example.com/ready"

func main() {
	ctrllog.SetLogger(logr.Discard())
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	manager, err := ctrl.NewManager(config, ctrl.Options{Metrics: server.Options{BindAddress: "0"}})
	if err != nil {
		return err
	}
	err = ctrl.NewControllerManagedBy(manager).For(&appsv1.Deployment{}).Complete(&marker{manager.GetClient()})
	if err != nil {
		return err
	}
	return manager.Start(ctrl.SetupSignalHandler())
}

type marker struct{ client.Client }

func (m *marker) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var found appsv1.Deployment
	if err := m.Get(ctx, request.NamespacedName, &found); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	count := strconv.Itoa(int(found.Status.ReadyReplicas))
	if found.Labels["operated"] != "yes" || found.Annotations[ready] == count {
		return ctrl.Result{}, nil
	}
	before := client.MergeFrom(found.DeepCopy())
	if found.Annotations == nil {
		found.Annotations = map[string]string{}
	}
	found.Annotations[ready] = count
	return ctrl.Result{}, client.IgnoreNotFound(m.Patch(ctx, &found, before))
}

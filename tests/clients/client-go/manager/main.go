// Command manager is an operator written with controller-runtime: with leader election, it copies what config maps with
// the label copy=yes have into a secret of the same name, which they own, and says what it did as lines of JSON.
//
//	manager -config FILE -namespace NS
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

func main() {
	kubeconfig := flag.String("config", "", "file that says where the server is")
	namespace := flag.String("namespace", "default", "where to look, and where the lease is")
	flag.Parse()
	if err := run(*kubeconfig, *namespace); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func tell(event, name string) {
	if err := json.NewEncoder(os.Stdout).Encode(map[string]string{"event": event, "name": name}); err != nil {
		os.Exit(1)
	}
}

func run(kubeconfig, namespace string) error {
	log.SetLogger(zap.New(zap.WriteTo(os.Stderr)))
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	lease, renewal, retry := 3*time.Second, 2*time.Second, 200*time.Millisecond
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Cache:                         cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}},
		Metrics:                       server.Options{BindAddress: "0"},
		LeaderElection:                true,
		LeaderElectionID:              "copier",
		LeaderElectionNamespace:       namespace,
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 &lease,
		RenewDeadline:                 &renewal,
		RetryPeriod:                   &retry,
	})
	if err != nil {
		return err
	}
	err = ctrl.NewControllerManagedBy(manager).For(&corev1.ConfigMap{}).Owns(&corev1.Secret{}).
		Complete(&copier{manager.GetClient()})
	if err != nil {
		return err
	}
	go func() {
		<-manager.Elected()
		tell("leads", "copier")
	}()
	return manager.Start(ctrl.SetupSignalHandler())
}

type copier struct{ client.Client }

func (c *copier) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var found corev1.ConfigMap
	if err := c.Get(ctx, request.NamespacedName, &found); err != nil {
		if apierrors.IsNotFound(err) {
			tell("absent", request.Name)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if found.Labels["copy"] != "yes" {
		return ctrl.Result{}, nil
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: found.Namespace, Name: found.Name}}
	result, err := controllerutil.CreateOrUpdate(ctx, c.Client, secret, func() error {
		secret.Data = map[string][]byte{}
		for key, value := range found.Data {
			secret.Data[key] = []byte(value)
		}
		return controllerutil.SetControllerReference(&found, secret, c.Scheme())
	})
	if err == nil {
		tell(string(result), secret.Name)
	}
	return ctrl.Result{}, err
}

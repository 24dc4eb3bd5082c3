// Command rollout creates the Deployment on its standard input with client-go, waits until it is available, and prints
// the names of its pods. $KUBECONFIG says where the cluster is.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	watchtools "k8s.io/client-go/tools/watch"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	var wanted appsv1.Deployment
	if err := json.NewDecoder(os.Stdin).Decode(&wanted); err != nil {
		return err
	}
	made, err := client.AppsV1().Deployments(wanted.Namespace).Create(ctx, &wanted, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	one := fields.OneTermEqualSelector("metadata.name", made.Name)
	source := cache.NewListWatchFromClient(client.AppsV1().RESTClient(), "deployments", made.Namespace, one)
	if _, err := watchtools.UntilWithSync(ctx, source, &appsv1.Deployment{}, nil, available); err != nil {
		return err
	}
	selector := metav1.FormatLabelSelector(made.Spec.Selector)
	pods, err := client.CoreV1().Pods(made.Namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return err
	}
	for _, pod := range pods.Items {
		fmt.Println(pod.Name)
	}
	return nil
}

func available(event watch.Event) (bool, error) {
	deployment, ok := event.Object.(*appsv1.Deployment)
	if !ok {
		return false, nil
	}
	for _, condition := range deployment.Status.Conditions {
		if condition.Type == appsv1.DeploymentAvailable && condition.Status == corev1.ConditionTrue {
			return true, nil
		}
	}
	return false, nil
}

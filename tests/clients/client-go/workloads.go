package main

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// workloads scales a deployment, binds a pod to a node and evicts it.
func workloads(ctx context.Context, client *kubernetes.Clientset, namespace string) error {
	labels := map[string]string{"app": "web"}
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "nginx"}}},
	}
	none := int32(0)
	deployments := client.AppsV1().Deployments(namespace)
	made, err := deployments.Create(ctx, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: appsv1.DeploymentSpec{
		Replicas: &none, Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template,
	}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	surge := made.Spec.Strategy.RollingUpdate.MaxSurge
	scale, err := deployments.GetScale(ctx, "web", metav1.GetOptions{})
	if err != nil {
		return err
	}
	scale.Spec.Replicas = 2
	if scale, err = deployments.UpdateScale(ctx, "web", scale, metav1.UpdateOptions{}); err != nil {
		return err
	}
	tell(line{Event: "scaled", Name: fmt.Sprint(*made.Spec.Replicas, scale.Spec.Replicas), Names: []string{surge.String(), scale.Status.Selector}})
	pods := client.CoreV1().Pods(namespace)
	pod, err := pods.Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: template.Spec}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	binding := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: namespace, UID: pod.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: "one"},
	}
	if err := pods.Bind(ctx, binding, metav1.CreateOptions{}); err != nil {
		return err
	}
	tell(line{Event: "bound twice", Name: string(apierrors.ReasonForError(pods.Bind(ctx, binding, metav1.CreateOptions{})))})
	listed, err := pods.List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=one"})
	if err != nil {
		return err
	}
	tell(line{Event: "on the node", Names: []string{listed.Items[0].Name, string(listed.Items[0].Status.Phase)}})
	now := int64(0)
	eviction := &policyv1.Eviction{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: namespace}, DeleteOptions: &metav1.DeleteOptions{GracePeriodSeconds: &now},
	}
	if err := pods.EvictV1(ctx, eviction); err != nil {
		return err
	}
	_, err = pods.Get(ctx, "web", metav1.GetOptions{})
	tell(line{Event: "evicted", Name: string(apierrors.ReasonForError(err))})
	return nil
}

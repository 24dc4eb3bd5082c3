// Command sampletest does what Kubernetes' conformance test of the sample API server does with one that is registered.
//
//	sampletest [-kubeconfig FILE] [-namespace NS]
//
// It prints each step when it has passed. At the end it deletes the APIService, as the test does.
// Source: k8s.io/kubernetes test/e2e/apimachinery/aggregator.go, TestSampleAPIServer.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/retry"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	aggregator "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"
	registered "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset/typed/apiregistration/v1"
	sample "k8s.io/sample-apiserver/pkg/apis/wardle/v1alpha1"
)

var (
	ctx      = context.Background()
	flunders = schema.GroupVersionResource{Group: "wardle.example.com", Version: "v1alpha1", Resource: "flunders"}
)

const (
	name      = "v1alpha1.wardle.example.com"
	object    = "/apis/apiregistration.k8s.io/v1/apiservices/" + name
	deadline  = 2 * time.Minute
	accepting = "application/json"
)

// tested is the cluster, as the clients of the test see it.
type tested struct {
	rest      rest.Interface
	discovery *discovery.DiscoveryClient
	dynamic   dynamic.ResourceInterface
	services  registered.APIServiceInterface
	path      string
}

func main() {
	kubeconfig := flag.String("kubeconfig", "", "file that says where the server is")
	namespace := flag.String("namespace", "default", "where flunders are made; it has none")
	flag.Parse()
	if err := run(*kubeconfig, *namespace); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(kubeconfig, namespace string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	found, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return err
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	services, err := aggregator.NewForConfig(config)
	if err != nil {
		return err
	}
	t := &tested{
		found.RESTClient(), found, objects.Resource(flunders).Namespace(namespace),
		services.ApiregistrationV1().APIServices(),
		"/apis/wardle.example.com/v1alpha1/namespaces/" + namespace + "/flunders",
	}
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"the server answers", t.answers},
		{"a flunder is created, listed and deleted by a REST client", t.byREST},
		{"discovery has flunders", t.discovered},
		{"a flunder is created and listed by the dynamic client", t.created},
		{"the status of the APIService says that all checks passed, and a patch raises its resourceVersion", t.patched},
		{"the APIService is listed", t.listed},
		{"a label is added by a strategic merge patch", t.labelled},
		{"the status is updated", t.statusUpdated},
		{"the APIService is replaced", t.replaced},
		{"the flunder is deleted and created again", t.recreated},
		{"the status is patched", t.statusPatched},
		{"the APIService is deleted by a collection's delete", t.collected},
	} {
		if err := step.do(); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
		fmt.Println(step.what)
	}
	return nil
}

func until(is wait.ConditionWithContextFunc) error {
	return wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, deadline, true, is)
}

func (t *tested) get(path string, into any) error {
	raw, err := t.rest.Get().AbsPath(path).SetHeader("Accept", accepting).DoRaw(ctx)
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, into)
}

func (t *tested) answers() error {
	return until(func(ctx context.Context) (bool, error) {
		_, err := t.rest.Get().AbsPath(t.path).SetHeader("Accept", accepting).DoRaw(ctx)
		if apierrors.IsForbidden(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil, err
	})
}

func (t *tested) byREST() error {
	flunder := `{"apiVersion":"wardle.example.com/v1alpha1","kind":"Flunder",` +
		`"metadata":{"labels":{"sample-label":"true"},"name":"rest-flunder"}}`
	result := t.rest.Post().AbsPath(t.path).Body([]byte(flunder)).SetHeader("Accept", accepting).Do(ctx)
	var code int
	if result.StatusCode(&code); result.Error() != nil || code != 201 {
		return fmt.Errorf("created with %d: %w", code, result.Error())
	}
	made := &unstructured.Unstructured{}
	if err := result.Into(made); err != nil {
		return err
	}
	if made.GetAPIVersion() != "wardle.example.com/v1alpha1" || made.GetKind() != "Flunder" || made.GetName() != "rest-flunder" {
		return fmt.Errorf("created %v", made)
	}
	if err := t.has(1); err != nil {
		return err
	}
	if _, err := t.rest.Delete().AbsPath(t.path + "/rest-flunder").DoRaw(ctx); err != nil {
		return err
	}
	return t.has(0)
}

// has is whether the REST client, with the sample server's own types, finds so many flunders.
func (t *tested) has(count int) error {
	var list sample.FlunderList
	if err := t.get(t.path, &list); err != nil {
		return err
	}
	if len(list.Items) != count {
		return fmt.Errorf("%d flunders, not %d", len(list.Items), count)
	}
	return nil
}

func (t *tested) discovered() error {
	lists, failed := t.discovery.ServerPreferredNamespacedResources()
	known, err := discovery.GroupVersionResources(lists)
	if err != nil {
		return err
	}
	if _, ok := known[flunders]; !ok {
		return fmt.Errorf("no flunders: %w", failed)
	}
	return nil
}

func (t *tested) created() error {
	made := sample.Flunder{
		TypeMeta:   metav1.TypeMeta{Kind: "Flunder", APIVersion: "wardle.example.com/v1alpha1"},
		ObjectMeta: metav1.ObjectMeta{Name: "dynamic-flunder"},
	}
	sent, err := json.Marshal(made)
	if err != nil {
		return err
	}
	tree := &unstructured.Unstructured{}
	if err := tree.UnmarshalJSON(sent); err != nil {
		return err
	}
	if _, err := t.dynamic.Create(ctx, tree, metav1.CreateOptions{}); err != nil {
		return err
	}
	return t.lists(1)
}

func (t *tested) lists(count int) error {
	list, err := t.dynamic.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	if len(list.Items) != count {
		return fmt.Errorf("%d flunders, not %d", len(list.Items), count)
	}
	return nil
}

func (t *tested) patched() error {
	var read apiregistration.APIService
	if err := t.get(object+"/status", &read); err != nil {
		return err
	}
	if message := read.Status.Conditions[0].Message; message != "all checks passed" {
		return errors.New(message)
	}
	before := read.ResourceVersion
	raw, err := t.rest.Patch(types.MergePatchType).AbsPath(object).SetHeader("Accept", accepting).
		Body([]byte(`{"spec":{"versionPriority": 400}}`)).DoRaw(ctx)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, &read); err != nil {
		return err
	}
	if order, err := resourceversion.CompareResourceVersion(before, read.ResourceVersion); err != nil || order != -1 {
		return fmt.Errorf("resourceVersion %s after %s: %w", read.ResourceVersion, before, err)
	}
	if read.Spec.VersionPriority != 400 {
		return fmt.Errorf("versionPriority %d", read.Spec.VersionPriority)
	}
	return nil
}

func (t *tested) listed() error {
	var list apiregistration.APIServiceList
	if err := t.get("/apis/apiregistration.k8s.io/v1/apiservices", &list); err != nil {
		return err
	}
	for _, item := range list.Items {
		if item.Name == name {
			return nil
		}
	}
	return fmt.Errorf("%s is not among %d", name, len(list.Items))
}

func (t *tested) labelled() error {
	patch := []byte(`{"metadata":{"labels":{"e2e-apiservice":"patched"}}}`)
	if _, err := t.services.Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return err
	}
	read, err := t.services.Get(ctx, name, metav1.GetOptions{})
	if err == nil && read.Labels["e2e-apiservice"] != "patched" {
		return fmt.Errorf("labels %v", read.Labels)
	}
	return err
}

func condition(kind, message string) apiregistration.APIServiceCondition {
	return apiregistration.APIServiceCondition{
		Type: apiregistration.APIServiceConditionType(kind), Status: "True", Reason: "E2E", Message: message,
	}
}

// shows is whether the status has a condition.
func (t *tested) shows(kind, message string) error {
	var read apiregistration.APIService
	if err := t.get(object+"/status", &read); err != nil {
		return err
	}
	for _, one := range read.Status.Conditions {
		if string(one.Type) == kind && one.Reason == "E2E" && one.Message == message {
			return nil
		}
	}
	return fmt.Errorf("conditions %v", read.Status.Conditions)
}

func (t *tested) statusUpdated() error {
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		var read apiregistration.APIService
		if err := t.get(object+"/status", &read); err != nil {
			return err
		}
		read.Status.Conditions = append(read.Status.Conditions, condition("StatusUpdated", "Set from e2e test"))
		_, err := t.services.UpdateStatus(ctx, &read, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return err
	}
	return t.shows("StatusUpdated", "Set from e2e test")
}

func (t *tested) replaced() error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		read, err := t.services.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		read.Labels = map[string]string{name: "updated"}
		updated, err := t.services.Update(ctx, read, metav1.UpdateOptions{})
		if err == nil && updated.Labels[name] != "updated" {
			return fmt.Errorf("labels %v", updated.Labels)
		}
		return err
	})
}

func (t *tested) recreated() error {
	if err := t.dynamic.Delete(ctx, "dynamic-flunder", metav1.DeleteOptions{}); err != nil {
		return err
	}
	if err := t.lists(0); err != nil {
		return err
	}
	return t.created()
}

func (t *tested) statusPatched() error {
	var read apiregistration.APIService
	if err := t.get(object+"/status", &read); err != nil {
		return err
	}
	conditions := append(read.Status.Conditions, condition("StatusPatched", "Set by e2e test"))
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": conditions}})
	if err != nil {
		return err
	}
	_, err = t.rest.Patch(types.MergePatchType).AbsPath(object+"/status").SetHeader("Accept", accepting).
		Body(patch).DoRaw(ctx)
	if err != nil {
		return err
	}
	return t.shows("StatusPatched", "Set by e2e test")
}

func (t *tested) collected() error {
	selector := labels.SelectorFromSet(labels.Set{name: "updated"}).String()
	selected := metav1.ListOptions{LabelSelector: selector}
	if err := t.services.DeleteCollection(ctx, metav1.DeleteOptions{}, selected); err != nil {
		return err
	}
	return until(func(ctx context.Context) (bool, error) {
		list, err := t.services.List(ctx, selected)
		return err == nil && len(list.Items) == 0, err
	})
}

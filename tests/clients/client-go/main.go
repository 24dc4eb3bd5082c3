// Command clients does what controllers do with client-go, and prints what it sees as lines of JSON.
//
//	clients [-kubeconfig FILE] [-namespace NS] dynamic|metadata|pager|leases|kinds|writer|appliers
//
// dynamic and metadata run an informer of foos until standard input is closed; each request it makes and each change it
// is told of is a line. pager lists foos in pages of two; writer creates, updates, applies and deletes one; leases does
// so with leases in protobuf, while it watches; kinds uses the kinds of a control plane in protobuf; appliers apply a foo
// until they agree. Whether informers list by watching, and whether CBOR is spoken, is for client-go's own switches to
// say: the environment variables KUBE_FEATURE_WatchListClient, KUBE_FEATURE_ClientsAllowCBOR and
// KUBE_FEATURE_ClientsPreferCBOR.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"sort"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/pager"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

const pageSize = 2

var foos = schema.GroupVersionResource{Group: "hello.zeng.dev", Version: "v2", Resource: "foos"}

// line is one thing that happened; fields that don't belong to it are left out.
type line struct {
	Event   string            `json:"event"`
	Name    string            `json:"name,omitempty"`
	Version string            `json:"version,omitempty"`
	Labels  map[string]string `json:"labels,omitempty"`
	Kind    string            `json:"kind,omitempty"`
	Query   map[string]string `json:"query,omitempty"`
	Code    int               `json:"code,omitempty"`
	Sent    string            `json:"sent,omitempty"`
	Got     string            `json:"got,omitempty"`
	Names   []string          `json:"names,omitempty"`
}

var printing sync.Mutex

func tell(what line) {
	printing.Lock()
	defer printing.Unlock()
	if err := json.NewEncoder(os.Stdout).Encode(what); err != nil {
		os.Exit(1)
	}
}

func main() {
	kubeconfig := flag.String("kubeconfig", "", "file that says where the server is")
	namespace := flag.String("namespace", "default", "where to look")
	flag.Parse()
	if err := run(flag.Arg(0), *kubeconfig, *namespace); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(what, kubeconfig, namespace string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return telling{next} })
	switch what {
	case "dynamic":
		client, err := dynamic.NewForConfig(config)
		if err != nil {
			return err
		}
		return inform(informer(client.Resource(foos).Namespace(namespace), &unstructured.Unstructured{}))
	case "metadata":
		client, err := metadata.NewForConfig(config)
		if err != nil {
			return err
		}
		return inform(informer(client.Resource(foos).Namespace(namespace), &metav1.PartialObjectMetadata{}))
	case "pager":
		return page(config, namespace)
	case "leases":
		return leases(config, namespace)
	case "kinds":
		return kinds(config, namespace)
	case "writer":
		return write(config, namespace)
	case "appliers":
		return apply(config, namespace)
	}
	return fmt.Errorf("%q: say dynamic, metadata, pager, leases, kinds, writer or appliers", what)
}

// source is what the dynamic and the metadata client have in common; L is the type of their lists.
type source[L runtime.Object] interface {
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}

// informer is what client-go's informer factories make. Those are not used: they need the types of all of Kubernetes,
// which take minutes to compile.
func informer[L runtime.Object](from source[L], example runtime.Object) cache.SharedIndexInformer {
	return cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return from.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return from.Watch(ctx, options)
		},
	}, example, 0, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
}

// inform runs an informer until standard input is closed.
func inform(informer cache.SharedIndexInformer) error {
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(added any) { changed("add", added) },
		UpdateFunc: func(_, updated any) { changed("update", updated) },
		DeleteFunc: func(deleted any) {
			if last, unknown := deleted.(cache.DeletedFinalStateUnknown); unknown {
				deleted = last.Obj
			}
			changed("delete", deleted)
		},
	})
	if err != nil {
		return err
	}
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		informer.Run(stop)
		close(done)
	}()
	if !cache.WaitForCacheSync(stop, registration.HasSynced) {
		return fmt.Errorf("the informer never synced")
	}
	tell(line{Event: "synced", Names: informer.GetStore().ListKeys()})
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	close(stop)
	<-done
	tell(line{Event: "stopped", Names: informer.GetStore().ListKeys()})
	return nil
}

func changed(how string, object any) {
	about, err := meta.Accessor(object)
	if err != nil {
		tell(line{Event: "error", Name: err.Error()})
		return
	}
	kind := object.(runtime.Object).GetObjectKind().GroupVersionKind().Kind
	tell(line{Event: how, Name: about.GetName(), Version: about.GetResourceVersion(), Labels: about.GetLabels(), Kind: kind})
}

// page lists in pages with client-go's pager, and tells the names in the order they came.
func page(config *rest.Config, namespace string) error {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	pages := pager.New(pager.SimplePageFunc(func(options metav1.ListOptions) (runtime.Object, error) {
		return client.Resource(foos).Namespace(namespace).List(context.Background(), options)
	}))
	pages.PageSize = pageSize
	var names []string
	err = pages.EachListItem(context.Background(), metav1.ListOptions{}, func(object runtime.Object) error {
		about, err := meta.Accessor(object)
		if err == nil {
			names = append(names, about.GetName())
		}
		return err
	})
	tell(line{Event: "paged", Names: names})
	return err
}

// write does to one foo what controllers do to objects, and tells what came back.
func write(config *rest.Config, namespace string) error {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	here, always := client.Resource(foos).Namespace(namespace), context.Background()
	foo := func(message string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "hello.zeng.dev/v2",
			"kind":       "Foo",
			"metadata":   map[string]any{"name": "written"},
			"spec":       map[string]any{"image": "busybox", "config": map[string]any{"msg": message}},
		}}
	}
	steps := []func(last *unstructured.Unstructured) (*unstructured.Unstructured, error){
		func(*unstructured.Unstructured) (*unstructured.Unstructured, error) {
			return here.Create(always, foo("one"), metav1.CreateOptions{})
		},
		func(last *unstructured.Unstructured) (*unstructured.Unstructured, error) {
			if err := unstructured.SetNestedField(last.Object, "two", "spec", "config", "msg"); err != nil {
				return nil, err
			}
			return here.Update(always, last, metav1.UpdateOptions{})
		},
		func(*unstructured.Unstructured) (*unstructured.Unstructured, error) {
			return here.Apply(always, "written", foo("three"), metav1.ApplyOptions{FieldManager: "writer", Force: true})
		},
		func(*unstructured.Unstructured) (*unstructured.Unstructured, error) {
			return here.Get(always, "written", metav1.GetOptions{})
		},
	}
	var last *unstructured.Unstructured
	for _, step := range steps {
		if last, err = step(last); err != nil {
			return err
		}
		message, _, _ := unstructured.NestedString(last.Object, "spec", "config", "msg")
		tell(line{Event: "wrote", Name: message, Kind: last.GetKind()})
	}
	if err := here.Delete(always, "written", metav1.DeleteOptions{}); err != nil {
		return err
	}
	_, err = here.Get(always, "written", metav1.GetOptions{})
	tell(line{Event: "gone", Name: string(apierrors.ReasonForError(err))})
	return nil
}

// apply is two managers that want different images, and what becomes of it at each step: the image and who owns it, or
// why not. An empty image is one that isn't applied.
func apply(config *rest.Config, namespace string) error {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	here := client.Resource(foos).Namespace(namespace)
	for _, step := range []struct {
		manager, image string
		force          bool
	}{
		{"first", "busybox", false},
		{"second", "alpine", false},
		{"second", "", false},
		{"second", "alpine", true},
		{"first", "busybox", false},
		{"first", "alpine", false},
		{"first", "", false},
	} {
		spec := map[string]any{"config": map[string]any{"msg": "hi"}}
		if step.image != "" {
			spec["image"] = step.image
		}
		foo := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "hello.zeng.dev/v2", "kind": "Foo", "metadata": map[string]any{"name": "applied"}, "spec": spec,
		}}
		options := metav1.ApplyOptions{FieldManager: step.manager, Force: step.force}
		applied, err := here.Apply(context.Background(), "applied", foo, options)
		if err != nil {
			tell(line{Event: "refused", Name: err.Error(), Names: causes(err)})
			continue
		}
		image, _, _ := unstructured.NestedString(applied.Object, "spec", "image")
		names, err := owners(applied.GetManagedFields())
		if err != nil {
			return err
		}
		tell(line{Event: "applied", Name: image, Names: names})
	}
	return nil
}

// causes are the fields in conflict, with the reason of each.
func causes(err error) []string {
	var fields []string
	status, known := err.(apierrors.APIStatus)
	if known && apierrors.IsConflict(err) && status.Status().Details != nil {
		for _, cause := range status.Status().Details.Causes {
			fields = append(fields, string(cause.Type)+" "+cause.Field)
		}
	}
	return fields
}

// owners are the managers of the image.
func owners(entries []metav1.ManagedFieldsEntry) ([]string, error) {
	image := fieldpath.MakePathOrDie("spec", "image")
	names := []string{}
	for _, entry := range entries {
		set := &fieldpath.Set{}
		if err := set.FromJSON(bytes.NewReader(entry.FieldsV1.Raw)); err != nil {
			return nil, err
		}
		if set.Has(image) {
			names = append(names, entry.Manager)
		}
	}
	sort.Strings(names)
	return names, nil
}

// telling is a transport that tells of each request, once it is answered.
type telling struct{ next http.RoundTripper }

func (t telling) RoundTrip(request *http.Request) (*http.Response, error) {
	answer, err := t.next.RoundTrip(request)
	query := map[string]string{}
	for name, values := range request.URL.Query() {
		query[name] = values[0]
	}
	told := line{Event: "request", Name: request.URL.Path, Query: query, Sent: request.Header.Get("Content-Type")}
	if err == nil {
		told.Code, told.Got = answer.StatusCode, answer.Header.Get("Content-Type")
	}
	tell(told)
	return answer, err
}

package main

import (
	"context"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

const protobuf = "application/vnd.kubernetes.protobuf"

// leases does with a typed client that speaks protobuf what leader election does with leases, and tells what came back.
func leases(config *rest.Config, namespace string) error {
	client, options, err := typed(config)
	if err != nil {
		return err
	}
	always := context.Background()
	here := func(request *rest.Request) *rest.Request { return request.Namespace(namespace).Resource("leases") }
	watched, err := here(client.Get()).VersionedParams(&metav1.ListOptions{Watch: true}, options).Watch(always)
	if err != nil {
		return err
	}
	holder, seconds := "one", int32(15)
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: "leader", Labels: map[string]string{"a": "b"}},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds},
	}
	steps := []func(last *coordinationv1.Lease) rest.Result{
		func(*coordinationv1.Lease) rest.Result { return here(client.Post()).Body(lease).Do(always) },
		func(last *coordinationv1.Lease) rest.Result {
			next := "two"
			last.Spec.HolderIdentity = &next
			return here(client.Put()).Name("leader").Body(last).Do(always)
		},
		func(*coordinationv1.Lease) rest.Result {
			patch := []byte(`{"spec":{"holderIdentity":"three"}}`)
			return here(client.Patch(types.MergePatchType)).Name("leader").Body(patch).Do(always)
		},
		func(*coordinationv1.Lease) rest.Result { return here(client.Get()).Name("leader").Do(always) },
	}
	last := &coordinationv1.Lease{}
	for _, step := range steps {
		now := &coordinationv1.Lease{}
		if err := step(last).Into(now); err != nil {
			return err
		}
		last = now
		tell(line{Event: "wrote", Name: *last.Spec.HolderIdentity, Version: last.ResourceVersion, Labels: last.Labels})
	}
	listed := &coordinationv1.LeaseList{}
	if err := here(client.Get()).VersionedParams(&metav1.ListOptions{Limit: 5}, options).Do(always).Into(listed); err != nil {
		return err
	}
	tell(line{Event: "listed", Names: []string{listed.Items[0].Name, *listed.Items[0].Spec.HolderIdentity}, Version: listed.ResourceVersion})
	others := metav1.NewUIDPreconditions("another")
	err = here(client.Delete()).Name("leader").Body(&metav1.DeleteOptions{Preconditions: others}).Do(always).Error()
	tell(line{Event: "kept", Name: string(apierrors.ReasonForError(err))})
	own := metav1.NewUIDPreconditions(string(last.UID))
	if err := here(client.Delete()).Name("leader").Body(&metav1.DeleteOptions{Preconditions: own}).Do(always).Error(); err != nil {
		return err
	}
	err = here(client.Get()).Name("leader").Do(always).Error()
	tell(line{Event: "gone", Name: string(apierrors.ReasonForError(err))})
	last.ResourceVersion, last.Name = "", "Not A Name"
	err = here(client.Post()).Body(last).Do(always).Error()
	cause := metav1.StatusCause{}
	if status, ok := err.(apierrors.APIStatus); ok && status.Status().Details != nil {
		cause = status.Status().Details.Causes[0]
	}
	tell(line{Event: "refused", Name: string(apierrors.ReasonForError(err)), Kind: cause.Field})
	for patience := time.After(20 * time.Second); ; {
		select {
		case event := <-watched.ResultChan():
			seen, ok := event.Object.(*coordinationv1.Lease)
			if !ok {
				return apierrors.FromObject(event.Object)
			}
			tell(line{Event: "seen", Kind: string(event.Type), Name: *seen.Spec.HolderIdentity})
			if event.Type == "DELETED" {
				watched.Stop()
				tell(line{Event: "done"})
				return nil
			}
		case <-patience:
			return context.DeadlineExceeded
		}
	}
}

// typed is the client that generated clientsets have inside.
func typed(config *rest.Config) (*rest.RESTClient, runtime.ParameterCodec, error) {
	scheme := runtime.NewScheme()
	if err := coordinationv1.AddToScheme(scheme); err != nil {
		return nil, nil, err
	}
	config = rest.CopyConfig(config)
	config.APIPath = "/apis"
	config.GroupVersion = &coordinationv1.SchemeGroupVersion
	config.ContentType = protobuf
	config.AcceptContentTypes = protobuf + ",application/json"
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.RESTClientFor(config)
	return client, runtime.NewParameterCodec(scheme), err
}

package main

import (
	"context"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// kinds does with the clientset, in protobuf, what programs of Kubernetes do with built-in kinds: writes, lists, watches,
// deletes with options, reviews and tokens.
func kinds(config *rest.Config, namespace string) error {
	config = rest.CopyConfig(config)
	config.ContentType, config.AcceptContentTypes = protobuf, protobuf
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if _, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	for _, step := range []func(context.Context, *kubernetes.Clientset, string) error{objects, reviews, tokens, workloads} {
		if err := step(ctx, client, namespace); err != nil {
			return err
		}
	}
	tell(line{Event: "done"})
	return nil
}

func objects(ctx context.Context, client *kubernetes.Clientset, namespace string) error {
	seen := make(chan line, 100)
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace))
	informer := factory.Core().V1().ConfigMaps().Informer()
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { seen <- line{Event: "add", Name: object.(*corev1.ConfigMap).Data["a"]} },
		UpdateFunc: func(_, object any) { seen <- line{Event: "update", Name: object.(*corev1.ConfigMap).Data["a"]} },
		DeleteFunc: func(object any) { seen <- line{Event: "delete", Name: object.(*corev1.ConfigMap).Data["a"]} },
	}); err != nil {
		return err
	}
	stop := make(chan struct{})
	defer close(stop)
	factory.Start(stop)
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return ctx.Err()
	}
	maps := client.CoreV1().ConfigMaps(namespace)
	made, err := maps.Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "one", Annotations: map[string]string{"a": "é"}, Finalizers: []string{"example.com/stay"}},
		Data:       map[string]string{"a": "1"}, BinaryData: map[string][]byte{"b": {0, 255}},
	}, metav1.CreateOptions{FieldManager: "kinds"})
	if err != nil {
		return err
	}
	made.Data["a"] = "2"
	if made, err = maps.Update(ctx, made, metav1.UpdateOptions{FieldManager: "kinds"}); err != nil {
		return err
	}
	stale := made.DeepCopy()
	stale.ResourceVersion = "1"
	_, err = maps.Update(ctx, stale, metav1.UpdateOptions{})
	tell(line{Event: "stale", Name: string(apierrors.ReasonForError(err))})
	zero, background := int64(0), metav1.DeletePropagationBackground
	options := metav1.DeleteOptions{GracePeriodSeconds: &zero, PropagationPolicy: &background}
	options.Preconditions = &metav1.Preconditions{UID: &made.UID, ResourceVersion: &made.ResourceVersion}
	if err := maps.Delete(ctx, "one", options); err != nil {
		return err
	}
	found, err := maps.Get(ctx, "one", metav1.GetOptions{})
	if err != nil {
		return err
	}
	tell(line{Event: "ending", Name: fmt.Sprint(found.DeletionTimestamp != nil, found.BinaryData["b"]) + " " + found.ManagedFields[0].Manager})
	found.Finalizers = nil
	if _, err := maps.Update(ctx, found, metav1.UpdateOptions{}); err != nil {
		return err
	}
	for {
		select {
		case change := <-seen:
			tell(change)
			if change.Event == "delete" {
				return roles(ctx, client, namespace)
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func roles(ctx context.Context, client *kubernetes.Clientset, namespace string) error {
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "reader"}, Rules: []rbacv1.PolicyRule{
		{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{"x"}},
	}}
	if _, err := client.RbacV1().Roles(namespace).Create(ctx, role, metav1.CreateOptions{}); err != nil {
		return err
	}
	listed, err := client.RbacV1().Roles(namespace).List(ctx, metav1.ListOptions{Limit: 5})
	if err != nil {
		return err
	}
	tell(line{Event: "roles", Names: []string{listed.Items[0].Name, listed.Items[0].Rules[0].ResourceNames[0]}})
	now := metav1.NewMicroTime(time.Date(2027, 1, 15, 8, 0, 0, 500_000, time.UTC))
	event := &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: "happened"}, EventTime: now, ReportingController: "example.com/kinds",
		ReportingInstance: "one", Action: "Look", Reason: "Seen", Type: "Normal", Note: "was seen",
		Regarding: corev1.ObjectReference{Kind: "ConfigMap", Name: "one", Namespace: namespace},
	}
	if _, err := client.EventsV1().Events(namespace).Create(ctx, event, metav1.CreateOptions{}); err != nil {
		return err
	}
	core, err := client.CoreV1().Events(namespace).Get(ctx, "happened", metav1.GetOptions{})
	if err != nil {
		return err
	}
	tell(line{Event: "event", Name: core.Message, Names: []string{core.EventTime.UTC().Format(metav1.RFC3339Micro)}})
	return nil
}

func reviews(ctx context.Context, client *kubernetes.Clientset, namespace string) error {
	self, err := client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	tell(line{Event: "whoami", Name: self.Status.UserInfo.Username, Names: self.Status.UserInfo.Groups})
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: "nobody", Groups: []string{"a"}, Extra: map[string]authorizationv1.ExtraValue{"k": {"x", "y"}, "none": {}},
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: "get", Resource: "configmaps", Name: "x"},
	}}
	for _, moment := range []string{"before", "after"} {
		answer, err := client.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		tell(line{Event: moment, Name: fmt.Sprint(answer.Status.Allowed), Names: answer.Spec.Extra["k"]})
		if moment == "after" {
			break
		}
		binding := &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "reader"}, RoleRef: rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "Role", Name: "reader"},
			Subjects: []rbacv1.Subject{{APIGroup: "rbac.authorization.k8s.io", Kind: "User", Name: "nobody"}},
		}
		if _, err := client.RbacV1().RoleBindings(namespace).Create(ctx, binding, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

func tokens(ctx context.Context, client *kubernetes.Clientset, namespace string) error {
	accounts := client.CoreV1().ServiceAccounts(namespace)
	if _, err := accounts.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "worker"}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	seconds := int64(3600)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	given, err := accounts.CreateToken(ctx, "worker", request, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: given.Status.Token}}
	reviewed, err := client.AuthenticationV1().TokenReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	user := reviewed.Status.User
	tell(line{Event: "token", Name: user.Username, Names: []string{
		fmt.Sprint(reviewed.Status.Authenticated), fmt.Sprint(len(user.Extra["authentication.kubernetes.io/credential-id"])),
		fmt.Sprint(given.Status.ExpirationTimestamp.After(time.Now())),
	}})
	return nil
}

// Command environment is a test as operators have them: with controller-runtime's envtest it starts the programs of a
// folder, has a webhook installed that takes only config maps with the label good=yes, and says what became of two.
//
//	environment FOLDER
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

func main() {
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(folder string) error {
	log.SetLogger(zap.New(zap.WriteTo(os.Stderr)))
	started := &envtest.Environment{BinaryAssetsDirectory: folder, ControlPlaneStartTimeout: time.Minute}
	started.WebhookInstallOptions.ValidatingWebhooks = []*admissionv1.ValidatingWebhookConfiguration{goodOnly()}
	config, err := started.Start()
	if err != nil {
		return err
	}
	told := try(config, started.WebhookInstallOptions)
	if err := started.Stop(); err != nil {
		return err
	}
	return told
}

func try(config *rest.Config, installed envtest.WebhookInstallOptions) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	server := webhook.NewServer(webhook.Options{
		Host:    installed.LocalServingHost,
		Port:    installed.LocalServingPort,
		CertDir: installed.LocalServingCertDir,
	})
	server.Register("/good", &webhook.Admission{Handler: admission.HandlerFunc(judge)})
	failed := make(chan error, 1)
	go func() { failed <- server.Start(ctx) }()
	for server.StartedChecker()(nil) != nil {
		select {
		case err := <-failed:
			return err
		case <-time.After(20 * time.Millisecond):
		}
	}
	asked, err := client.New(config, client.Options{})
	if err != nil {
		return err
	}
	for name, label := range map[string]string{"bad": "no", "good": "yes"} {
		labels := map[string]string{"good": label}
		tell(name, asked.Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: labels},
		}))
	}
	return nil
}

func tell(name string, err error) {
	said := map[string]string{"name": name, "reason": "", "message": ""}
	if err != nil {
		said["reason"], said["message"] = string(apierrors.ReasonForError(err)), err.Error()
	}
	if err := json.NewEncoder(os.Stdout).Encode(said); err != nil {
		os.Exit(1)
	}
}

func judge(_ context.Context, asked admission.Request) admission.Response {
	var found corev1.ConfigMap
	if err := json.Unmarshal(asked.Object.Raw, &found); err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	if found.Labels["good"] != "yes" {
		return admission.Denied("it isn't good")
	}
	return admission.Allowed("")
}

func goodOnly() *admissionv1.ValidatingWebhookConfiguration {
	path, fail, none := "/good", admissionv1.Fail, admissionv1.SideEffectClassNone
	return &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "good-only"},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name:                    "good.example.com",
			AdmissionReviewVersions: []string{"v1"},
			FailurePolicy:           &fail,
			SideEffects:             &none,
			ObjectSelector:          &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "good", Operator: "Exists"}}},
			ClientConfig: admissionv1.WebhookClientConfig{
				Service: &admissionv1.ServiceReference{Name: "good", Namespace: "default", Path: &path},
			},
			Rules: []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{admissionv1.Create},
				Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
			}},
		}},
	}
}

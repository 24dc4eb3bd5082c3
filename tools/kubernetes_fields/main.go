// Command kubernetes-fields prints the protobuf fields of Kubernetes' own types, as Go's struct tags say them.
//
//	cd tools/kubernetes_fields && go run . ../../src/oarlock/codec/kubernetes_fields.txt
//
// The table is changed in place: what a newer release has is added, and what it no longer has stays, since numbers are
// never used again. The release is that of the modules in go.mod.
//
// A line is a message: its name, then its fields. A field is name=number, or name=number:type for all but strings;
// [] before a type is a list, {} a map by string. A type with a capital letter is a message, of the same package if it
// has no dot. A field without a name is inlined: in JSON its fields are those of the message around it. A question mark
// after a name says that the zero value means nothing: a Go program always writes it in protobuf, and never in JSON.
// A message that is a list in JSON has its fields after "[]".
package main

import (
	"fmt"
	"os"
	"reflect"
	"regexp"
	"sort"
	"strings"

	admission "k8s.io/api/admission/v1"
	apidiscovery "k8s.io/api/apidiscovery/v2"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

var (
	stable  = regexp.MustCompile(`^v[0-9]+$`)
	version = regexp.MustCompile(`^v[0-9]`)
)

func main() {
	known := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		scheme.AddToScheme, admission.AddToScheme, apiextensions.AddToScheme, apiregistration.AddToScheme, apidiscovery.AddToScheme,
	} {
		check(add(known))
	}
	table := messages{}
	for gvk, goType := range known.AllKnownTypes() {
		if stable.MatchString(gvk.Version) && gvk.Kind != "WatchEvent" {
			table.add(goType)
		}
	}
	for _, one := range []any{
		meta.APIGroup{}, meta.APIGroupList{}, meta.APIResourceList{}, meta.APIVersions{}, meta.PartialObjectMetadata{},
		meta.PartialObjectMetadataList{}, meta.Status{}, meta.WatchEvent{}, meta.TypeMeta{}, runtime.Unknown{},
	} {
		table.add(reflect.TypeOf(one))
	}
	before, err := os.ReadFile(os.Args[1])
	check(err)
	merged := map[string]string{}
	for _, line := range strings.Split(strings.TrimSpace(string(before)), "\n") {
		name, _, _ := strings.Cut(line, " ")
		merged[name] = line
	}
	for _, line := range table {
		name, _, _ := strings.Cut(line, " ")
		merged[name] = united(line, merged[name])
	}
	lines := make([]string, 0, len(merged))
	for _, line := range merged {
		lines = append(lines, line)
	}
	sort.Strings(lines)
	check(os.WriteFile(os.Args[1], []byte(strings.TrimSpace(strings.Join(lines, "\n"))+"\n"), 0o644))
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

var number = regexp.MustCompile(`=[0-9]+`)

// united is a line with the fields of the line before it that it no longer has.
func united(line, before string) string {
	there := map[string]bool{}
	for _, part := range number.FindAllString(line, -1) {
		there[part] = true
	}
	for _, part := range strings.Fields(before) {
		if found := number.FindString(part); found != "" && !there[found] {
			line += " " + part
		}
	}
	return line
}

// spelled are the fields of messages that Go writes with code of their own.
var spelled = map[string]string{
	"meta.v1.MicroTime": "seconds=1:int64 nanos=2:int32",
	"meta.v1.Time":      "seconds=1:int64 nanos=2:int32",
	"resource.Quantity": "string=1",
}

// messages are the lines by the Go type they are about.
type messages map[reflect.Type]string

// add adds a message, and those in its fields.
func (m messages) add(goType reflect.Type) {
	if _, there := m[goType]; there {
		return
	}
	m[goType] = "" // types may contain themselves
	if fields, special := spelled[fullName(goType)]; special {
		m[goType] = fullName(goType) + " " + fields
		return
	}
	if goType.Kind() == reflect.Slice {
		m[goType] = fmt.Sprintf("%s [] items=1:[]%s", fullName(goType), m.typeName(goType.Elem(), goType))
		m[goType] = strings.TrimSuffix(m[goType], "string")
		return
	}
	parts := []string{fullName(goType)}
	for index := range goType.NumField() {
		if part := m.field(goType.Field(index), goType); part != "" {
			parts = append(parts, part)
		}
	}
	m[goType] = strings.Join(parts, " ")
}

// field is one field in the form of a line; nothing for one that isn't in protobuf.
func (m messages) field(field reflect.StructField, within reflect.Type) string {
	tag := strings.Split(field.Tag.Get("protobuf"), ",")
	if len(tag) < 2 {
		return ""
	}
	name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
	if name == "-" { // the text of some JSON, or a part of a union
		name = strings.ToLower(field.Name[:1]) + field.Name[1:]
	}
	if name == "" && !field.Anonymous {
		name = nameIn(tag)
	}
	if strings.Contains(options, "omitempty") && vanishes(field.Type) {
		name += "?"
	}
	kind := m.typeName(field.Type, within)
	if kind == "string" {
		return name + "=" + tag[1]
	}
	return name + "=" + tag[1] + ":" + strings.TrimSuffix(kind, "string")
}

func nameIn(tag []string) string {
	for _, part := range tag {
		if name, found := strings.CutPrefix(part, "name="); found {
			return name
		}
	}
	return ""
}

// vanishes says whether Go leaves the zero value out of JSON and not out of protobuf.
func vanishes(goType reflect.Type) bool {
	switch goType.Kind() {
	case reflect.String, reflect.Bool, reflect.Int32, reflect.Int64, reflect.Float64:
		return true
	}
	return false
}

// typeName is what a line calls the type of a field.
func (m messages) typeName(goType, within reflect.Type) string {
	switch goType.Kind() {
	case reflect.Pointer:
		return m.typeName(goType.Elem(), within)
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "bool"
	case reflect.Int32, reflect.Int64:
		return goType.Kind().String()
	case reflect.Float64:
		return "double"
	case reflect.Map:
		return "{}" + m.typeName(goType.Elem(), within)
	case reflect.Slice:
		if goType.Elem().Kind() == reflect.Uint8 {
			return "bytes"
		}
		if _, isMessage := reflect.PointerTo(goType).MethodByName("MarshalTo"); !isMessage {
			return "[]" + m.typeName(goType.Elem(), within)
		}
	case reflect.Struct:
	default:
		panic("no protobuf for " + goType.String())
	}
	m.add(goType)
	if goType.PkgPath() == within.PkgPath() {
		return goType.Name()
	}
	return fullName(goType)
}

// fullName is the name of a message: group, version and type, or package and type for what belongs to no group.
func fullName(goType reflect.Type) string {
	path := strings.Split(goType.PkgPath(), "/")
	last := path[len(path)-1]
	if version.MatchString(last) {
		last = path[len(path)-2] + "." + last
	}
	return last + "." + goType.Name()
}

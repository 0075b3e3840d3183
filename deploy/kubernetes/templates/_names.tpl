{{/* Name of all that belongs to a release. */}}
{{- define "penstock.name" -}}
{{- if contains "penstock" .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}
{{- else }}{{ printf "%s-penstock" .Release.Name | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end }}

{{/* Labels that a selector may use. Takes (list root service). */}}
{{- define "penstock.selector" -}}
app.kubernetes.io/name: penstock
app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{/* All labels. Takes (list root service). */}}
{{- define "penstock.labels" -}}
{{- $root := index . 0 -}}
{{ include "penstock.selector" . }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version }}
{{- end }}

{{/* What every pod of the release has. */}}
{{- define "penstock.everyone" -}}
app.kubernetes.io/name: penstock
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* "true" when topics are in a bucket, nothing when they are on a volume. */}}
{{- define "penstock.topicsOnS3" -}}
{{- if hasPrefix "s3://" .Values.topics.dir }}true{{ end }}
{{- end }}

{{/* "true" when the REST API knows who asks: then it may be reached from outside its pod. */}}
{{- define "penstock.restIsOpen" -}}
{{- with .Values.gateway }}{{ if or .usersSecret.name .oidc.issuer }}true{{ end }}{{ end }}
{{- end }}

{{/* Says why something of the gateway's cannot reach it. Takes (list root what). */}}
{{- define "penstock.reached" -}}
{{- $v := (index . 0).Values -}}
{{- if not (include "penstock.restIsOpen" (index . 0)) }}
{{- fail (printf "%s.enabled wants a gateway that knows who asks: set gateway.usersSecret.name or gateway.oidc.issuer. Without them the REST API listens inside its pod alone" (index . 1)) }}
{{- end }}
{{- if and $v.networkPolicy.enabled (not $v.networkPolicy.clients) }}
{{- fail (printf "%s.enabled wants networkPolicy.clients: name the pods that come, or set networkPolicy.enabled to false. Without them the network policy keeps all others out" (index . 1)) }}
{{- end }}
{{- end }}

{{- define "penstock.topicsClaim" -}}
{{ .Values.topics.claim.existing | default (printf "%s-topics" (include "penstock.name" .)) }}
{{- end }}

{{/* Seconds until a pod is killed: drain.timeout for its tasks, once more for calls, and the ends of all else. */}}
{{- define "penstock.grace" -}}
{{ add (mul 2 .Values.drainTimeoutSeconds) 35 }}
{{- end }}

{{/* The keys of a service, as its file has them. Takes (list root service). */}}
{{- define "penstock.keys" -}}
{{- $root := index . 0 -}}
{{- $service := index . 1 -}}
{{- $v := $root.Values -}}
{{- $name := $v.clusterName | default (printf "%s.%s" $root.Release.Namespace $root.Release.Name) -}}
{{- $keys := dict "cluster.name" $name "listen" "0.0.0.0:7400" -}}
{{- $_ := set $keys "drain.timeout" (printf "%ds" (int $v.drainTimeoutSeconds)) -}}
{{- $_ := set $keys "etcd.endpoints" (join "," $v.etcd.endpoints) -}}
{{- if $v.etcd.tlsSecret.name -}}
{{- $_ := set $keys "etcd.tls.authority" (printf "/etc/penstock/etcd/%s" $v.etcd.tlsSecret.authorityKey) -}}
{{- if $v.etcd.tlsSecret.clientCertificate -}}
{{- $_ := set $keys "etcd.tls.certificate" (printf "/etc/penstock/etcd/%s" $v.etcd.tlsSecret.certificateKey) -}}
{{- $_ := set $keys "etcd.tls.key" (printf "/etc/penstock/etcd/%s" $v.etcd.tlsSecret.keyKey) -}}
{{- end -}}
{{- end -}}
{{- if $v.tls.secretPrefix -}}
{{- $_ := set $keys "tls.authority" "/etc/penstock/tls/ca.crt" -}}
{{- $_ := set $keys "tls.certificate" "/etc/penstock/tls/tls.crt" -}}
{{- $_ := set $keys "tls.key" "/etc/penstock/tls/tls.key" -}}
{{- end -}}
{{- if has $service (list "config" "offset") -}}
{{- $_ := set $keys "store" $v.store.kind -}}
{{- if eq $v.store.kind "postgresql" -}}{{- $_ := set $keys "store.schema" $v.store.schema -}}{{- end -}}
{{- end -}}
{{- if has $service (list "config" "offset" "scheduler") -}}
{{- with $v.store.sealSecret -}}
{{- if .name -}}{{- $_ := set $keys "store.seal.keys" (printf "/etc/penstock/seal/%s" .key) -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- if eq $service "worker" -}}
{{- $_ := set $keys "state.dir" "/var/lib/penstock/state" -}}
{{- $_ := set $keys "topics.dir" $v.topics.dir -}}
{{- if include "penstock.topicsOnS3" $root -}}
{{- with $v.topics.s3.endpoint -}}{{- $_ := set $keys "topics.s3.endpoint" . -}}{{- end -}}
{{- with $v.topics.s3.region -}}{{- $_ := set $keys "topics.s3.region" . -}}{{- end -}}
{{- end -}}
{{- $labels := list -}}
{{- range $label, $value := $v.worker.labels -}}{{- $labels = append $labels (printf "%s=%s" $label $value) -}}{{- end -}}
{{- if $labels -}}{{- $_ := set $keys "labels" (join "," $labels) -}}{{- end -}}
{{- end -}}
{{- if eq $service "gateway" -}}
{{- with $v.gateway -}}
{{- $host := ternary "0.0.0.0" "127.0.0.1" (ne (include "penstock.restIsOpen" $root) "") -}}
{{- $_ := set $keys "listeners" (printf "%s://%s:8083" (ternary "https" "http" (ne .tlsSecret.name "")) $host) -}}
{{- if .tlsSecret.name -}}
{{- $_ := set $keys "listener.tls.certificate" (printf "/etc/penstock/rest/%s" .tlsSecret.certificateKey) -}}
{{- $_ := set $keys "listener.tls.key" (printf "/etc/penstock/rest/%s" .tlsSecret.keyKey) -}}
{{- end -}}
{{- if .usersSecret.name -}}{{- $_ := set $keys "auth.users" (printf "/etc/penstock/users/%s" .usersSecret.key) -}}{{- end -}}
{{- if .oidc.issuer -}}
{{- $_ := set $keys "auth.oidc.issuer" .oidc.issuer -}}
{{- $_ := set $keys "auth.oidc.audience" .oidc.audience -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{ toYaml (mergeOverwrite $keys $v.keys.all (index $v.keys $service)) }}
{{- end }}

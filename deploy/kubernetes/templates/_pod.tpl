{{/* The pod of a service. Takes (list root service). */}}
{{- define "penstock.pod" -}}
{{- $root := index . 0 -}}
{{- $service := index . 1 -}}
{{- $v := $root.Values -}}
{{- $own := index $v $service -}}
{{- $worker := eq $service "worker" -}}
{{- /* the kubelet shows no certificate: where one is asked for, it only knocks */}}
{{- $probe := ternary "tcpSocket: {port: 7400}" "grpc: {port: 7400}" (ne $v.tls.secretPrefix "") -}}
{{- $topicsVolume := and $worker (not (include "penstock.topicsOnS3" $root)) -}}
metadata:
  labels:
    {{- include "penstock.labels" . | nindent 4 }}
  annotations:
    penstock/keys: {{ include "penstock.keys" . | sha256sum }}
    {{- with $own.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "penstock.name" $root }}-{{ $service }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ include "penstock.grace" $root }}
  {{- with $v.imagePullSecrets }}
  imagePullSecrets:
    {{- range . }}
    - name: {{ . }}
    {{- end }}
  {{- end }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 10001
    runAsGroup: 10001
    fsGroup: 10001
    fsGroupChangePolicy: OnRootMismatch
    seccompProfile:
      type: RuntimeDefault
  topologySpreadConstraints:
    {{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
    - maxSkew: 1
      topologyKey: {{ . }}
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "penstock.selector" $ | nindent 10 }}
    {{- end }}
  {{- with $own.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $own.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $own.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
    - name: {{ $service }}
      image: {{ $v.image.repository }}:{{ $v.image.tag | default $root.Chart.AppVersion }}
      imagePullPolicy: {{ $v.image.pullPolicy }}
      args: [penstock, {{ $service }}, --config, /etc/penstock/{{ $service }}.yaml]
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities:
          drop: [ALL]
      env:
        {{- include "penstock.environment" . | nindent 8 }}
      {{- with concat $v.envFrom $own.envFrom }}
      envFrom:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      ports:
        - name: grpc
          containerPort: 7400
        {{- if eq $service "gateway" }}
        - name: rest
          containerPort: 8083
        {{- end }}
      # a JVM, gRPC's threads and a busy machine: none of them is a reason to be killed within half a minute
      startupProbe:
        {{ $probe }}
        periodSeconds: 2
        timeoutSeconds: 5
        failureThreshold: 60
      readinessProbe:
        {{ $probe }}
        periodSeconds: 5
        timeoutSeconds: 5
        failureThreshold: 2
      livenessProbe:
        {{ $probe }}
        periodSeconds: 10
        timeoutSeconds: 10
        failureThreshold: 6
      {{- if not $worker }}
      # callers through the Service hear late that it goes: answer them a little longer
      lifecycle:
        preStop:
          exec:
            command: [sleep, "5"]
      {{- end }}
      resources:
        {{- toYaml $own.resources | nindent 8 }}
      volumeMounts:
        - {name: keys, mountPath: /etc/penstock/{{ $service }}.yaml, subPath: {{ $service }}.yaml, readOnly: true}
        - {name: tmp, mountPath: /tmp}
        {{- if $v.etcd.tlsSecret.name }}
        - {name: etcd-tls, mountPath: /etc/penstock/etcd, readOnly: true}
        {{- end }}
        {{- if $v.tls.secretPrefix }}
        - {name: tls, mountPath: /etc/penstock/tls, readOnly: true}
        {{- end }}
        {{- if and (has $service (list "config" "offset" "scheduler")) $v.store.sealSecret.name }}
        - {name: seal, mountPath: /etc/penstock/seal, readOnly: true}
        {{- end }}
        {{- if eq $service "gateway" }}
        {{- if $own.usersSecret.name }}
        - {name: users, mountPath: /etc/penstock/users, readOnly: true}
        {{- end }}
        {{- if $own.tlsSecret.name }}
        - {name: rest-tls, mountPath: /etc/penstock/rest, readOnly: true}
        {{- end }}
        {{- end }}
        {{- if $worker }}
        - {name: state, mountPath: /var/lib/penstock/state}
        {{- if $topicsVolume }}
        - {name: topics, mountPath: {{ $v.topics.dir }}}
        {{- end }}
        {{- end }}
        {{- with $own.volumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  volumes:
    - name: keys
      configMap:
        name: {{ include "penstock.name" $root }}
    - name: tmp
      emptyDir: {sizeLimit: {{ $worker | ternary (index $v.worker "scratch") "64Mi" }}}
    {{- with $v.etcd.tlsSecret.name }}
    - name: etcd-tls
      secret:
        secretName: {{ . }}
        defaultMode: 0440
    {{- end }}
    {{- with $v.tls.secretPrefix }}
    - name: tls
      secret:
        secretName: {{ . }}-{{ $service }}
        defaultMode: 0440
    {{- end }}
    {{- if and (has $service (list "config" "offset" "scheduler")) $v.store.sealSecret.name }}
    - name: seal
      secret:
        secretName: {{ $v.store.sealSecret.name }}
        defaultMode: 0440
    {{- end }}
    {{- if eq $service "gateway" }}
    {{- with $own.usersSecret.name }}
    - name: users
      secret:
        secretName: {{ . }}
        defaultMode: 0440
    {{- end }}
    {{- with $own.tlsSecret.name }}
    - name: rest-tls
      secret:
        secretName: {{ . }}
        defaultMode: 0440
    {{- end }}
    {{- end }}
    {{- if $worker }}
    - name: state
      emptyDir: {sizeLimit: {{ $own.scratch }}}
    {{- if $topicsVolume }}
    - name: topics
      persistentVolumeClaim:
        claimName: {{ include "penstock.topicsClaim" $root }}
    {{- end }}
    {{- end }}
    {{- with $own.volumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end }}

{{/* What only the pod knows, and secrets. A variable wins over the file. Takes (list root service). */}}
{{- define "penstock.environment" -}}
{{- $v := (index . 0).Values -}}
{{- $own := index $v (index . 1) -}}
- name: PENSTOCK_INSTANCE_NAME
  valueFrom:
    fieldRef:
      fieldPath: metadata.name
- name: PENSTOCK_ADVERTISE
  valueFrom:
    fieldRef:
      fieldPath: status.podIP
- name: PENSTOCK_LOG_LEVEL
  value: {{ $v.logLevel }}
{{- range list $v.env $own.env }}
{{- $seen := dict }}
{{- range . }}
{{- if hasKey $seen .name }}{{- fail (printf "env has %s twice: leave one out" .name) }}{{- end }}
{{- $_ := set $seen .name true }}
{{- end }}
{{- end }}
{{- $named := dict }}
{{- range $own.env }}{{- $_ := set $named .name true }}{{- end }}
{{- /* what a service has of its own wins: Kubernetes takes a name once */}}
{{- range $v.env }}
{{- if not (hasKey $named .name) }}
- {{ toYaml . | nindent 2 | trim }}
{{- end }}
{{- end }}
{{- range $own.env }}
- {{ toYaml . | nindent 2 | trim }}
{{- end }}
{{- with $v.etcd.credentialsSecret }}
{{- if .name }}
- name: PENSTOCK_ETCD_USER
  valueFrom:
    secretKeyRef: {name: {{ .name }}, key: {{ .userKey }}}
- name: PENSTOCK_ETCD_PASSWORD
  valueFrom:
    secretKeyRef: {name: {{ .name }}, key: {{ .passwordKey }}}
{{- end }}
{{- end }}
{{- if and (has (index . 1) (list "config" "offset")) (eq $v.store.kind "postgresql") }}
- name: PENSTOCK_STORE_URL
  valueFrom:
    secretKeyRef: {name: {{ required "store.urlSecret.name says where PostgreSQL is" $v.store.urlSecret.name }}, key: {{ $v.store.urlSecret.key }}}
{{- end }}
{{- if and (eq (index . 1) "worker") (include "penstock.topicsOnS3" (index . 0)) }}
{{- with $v.topics.s3.credentialsSecret }}
{{- if .name }}
- name: PENSTOCK_TOPICS_S3_ACCESS_KEY
  valueFrom:
    secretKeyRef: {name: {{ .name }}, key: {{ .accessKeyKey }}}
- name: PENSTOCK_TOPICS_S3_SECRET_KEY
  valueFrom:
    secretKeyRef: {name: {{ .name }}, key: {{ .secretKeyKey }}}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

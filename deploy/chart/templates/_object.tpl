{{- /* One document of deploy/base, changed by the values. Takes `root` and `object`. */ -}}
{{- define "slipway.object" -}}
{{- $values := .root.Values }}
{{- $object := .object }}
{{- $name := $object.metadata.name }}
{{- $role := index $values (trimPrefix "slipway-" $name) | default dict }}
{{- $labels := dict "app.kubernetes.io/part-of" "slipway" "app.kubernetes.io/instance" .root.Release.Name }}
{{- $_ := set $labels "app.kubernetes.io/managed-by" .root.Release.Service }}
{{- $_ := set $labels "helm.sh/chart" (printf "%s-%s" .root.Chart.Name .root.Chart.Version) }}
{{- $_ := set $object.metadata "labels" (merge $labels ($object.metadata.labels | default dict)) }}
{{- $_ := set $object.metadata "namespace" .root.Release.Namespace }}
{{- if eq $object.kind "ConfigMap" }}
{{- $_ := set $object "data" (merge (include "slipway.settings" .root | fromYaml) $object.data) }}
{{- else if eq $object.kind "HorizontalPodAutoscaler" }}
{{- $_ := set $object.spec "minReplicas" $role.minReplicas }}
{{- $_ := set $object.spec "maxReplicas" $role.maxReplicas }}
{{- else if and (eq $object.kind "NetworkPolicy") (eq $name "data") }}
{{- $ports := list }}
{{- range $values.database.ports }}{{ $ports = append $ports (dict "port" . "protocol" "TCP") }}{{ end }}
{{- $rule := dict "ports" $ports }}
{{- with $values.database.to }}{{ $_ := set $rule "to" . }}{{ end }}
{{- $_ := set $object.spec "egress" (list $rule) }}
{{- else if eq $object.kind "PersistentVolumeClaim" }}
{{- $_ := set $object.spec.resources.requests "storage" $values.models.size }}
{{- with $values.models.storageClass }}{{ $_ := set $object.spec "storageClassName" . }}{{ end }}
{{- else if eq $object.kind "Ingress" }}
{{- $host := (urlParse $values.address).hostname }}
{{- with $values.ingress.className }}{{ $_ := set $object.spec "ingressClassName" . }}{{ end }}
{{- with $values.ingress.annotations }}{{ $_ := set $object.metadata "annotations" . }}{{ end }}
{{- $_ := set $object.spec "tls" (list (dict "hosts" (list $host) "secretName" $values.ingress.tlsSecret)) }}
{{- $_ := set (first $object.spec.rules) "host" $host }}
{{- else if has $object.kind (list "PodMonitor" "PrometheusRule") }}
{{- $_ := set $object.metadata "labels" (merge (dict) $values.monitoring.labels $object.metadata.labels) }}
{{- range $endpoint := $object.spec.podMetricsEndpoints }}
{{- with $endpoint.authorization }}{{ $_ := set .credentials "name" $values.monitoring.tokenSecret }}{{ end }}
{{- end }}
{{- else if has $object.kind (list "Deployment" "Job") }}
{{- if hasKey $object.spec "replicas" }}{{ $_ := set $object.spec "replicas" $role.replicas }}{{ end }}
{{- include "slipway.pod" (dict "root" .root "template" $object.spec.template "role" $role "name" $name) }}
{{- if eq $object.kind "Job" }}
{{- /* A Job cannot be changed: another image or another setting is another Job. */}}
{{- $_ := set $object.metadata "name" (printf "%s-%s" $name (toYaml $object.spec | sha256sum | trunc 8)) }}
{{- end }}
{{- end }}
{{- toYaml $object }}
{{- end }}

{{- define "slipway.pod" -}}
{{- $values := .root.Values }}
{{- $pod := .template.spec }}
{{- $image := $values.image }}
{{- $tail := printf ":%s" ($image.tag | default .root.Chart.AppVersion) }}
{{- if $image.digest }}{{ $tail = printf "@%s" $image.digest }}{{ end }}
{{- range $container := concat ($pod.initContainers | default list) $pod.containers }}
{{- $_ := set $container "image" (print $image.repository $tail) }}
{{- range $source := $container.envFrom }}
{{- with $source.secretRef }}{{ $_ := set . "name" $values.database.secret }}{{ end }}
{{- end }}
{{- end }}
{{- $main := first $pod.containers }}
{{- $_ := set $main "resources" (mergeOverwrite $main.resources (.role.resources | default dict)) }}
{{- $settings := include "slipway.settings" .root | sha256sum }}
{{- $_ := set .template.metadata "annotations" (dict "slipway.io/settings" $settings) }}
{{- with $image.pullSecrets }}{{ $_ := set $pod "imagePullSecrets" . }}{{ end }}
{{- with $values.nodeSelector }}{{ $_ := set $pod "nodeSelector" . }}{{ end }}
{{- with $values.tolerations }}{{ $_ := set $pod "tolerations" . }}{{ end }}
{{- with $values.affinity }}{{ $_ := set $pod "affinity" . }}{{ end }}
{{- if and $values.home.size (has .name (list "slipway-web" "slipway-worker")) }}
{{- $claim := dict "accessModes" (list "ReadWriteOnce") "resources" (dict "requests" (dict "storage" $values.home.size)) }}
{{- with $values.home.storageClass }}{{ $_ := set $claim "storageClassName" . }}{{ end }}
{{- $home := first $pod.volumes }}
{{- $_ := unset $home "emptyDir" }}
{{- $_ := set $home "ephemeral" (dict "volumeClaimTemplate" (dict "spec" $claim)) }}
{{- end }}
{{- if and $values.models.claim (ne .name "slipway-prepare") }}
{{- $claim := dict "name" "models" "persistentVolumeClaim" (dict "claimName" "slipway-models") }}
{{- $_ := set $pod "volumes" (append $pod.volumes $claim) }}
{{- $mount := dict "name" "models" "mountPath" "/models" }}
{{- $_ := set $main "volumeMounts" (append $main.volumeMounts $mount) }}
{{- end }}
{{- end }}

{{- define "slipway.settings" -}}
{{- $address := urlParse .Values.address }}
{{- $hosts := $address.hostname }}
{{- if eq $hosts "localhost" }}
{{- $hosts = printf "localhost,slipway-web,slipway-web.%s.svc" .Release.Namespace }}
{{- end }}
{{- $https := eq $address.scheme "https" | toString }}
{{- $own := dict "SLIPWAY_PUBLIC_URL" .Values.address "SLIPWAY_ALLOWED_HOSTS" $hosts "SLIPWAY_HTTPS" $https }}
{{- if .Values.models.claim }}{{ $_ := set $own "SLIPWAY_STORE" "/models" }}{{ end }}
{{- toYaml (merge (dict) .Values.settings $own) }}
{{- end }}
